// Goroutines, garbage, a recovered nil dereference (a SIGSEGV that the run-time handles), a child process.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

func recovered() (caught bool) {
	defer func() { caught = recover() != nil }()
	var nothing *int
	*nothing = 1
	return false
}

func main() {
	var group sync.WaitGroup
	var totals [8]int
	for g := range totals {
		group.Add(1)
		go func(g int) { // before Go 1.22 all would have the loop's own
			defer group.Done()
			for i := 0; i < 20000; i++ {
				block := make([]byte, 100+i%1000)
				block[i%100] = 1
				totals[g] += int(block[i%100])
			}
		}(g)
	}
	group.Wait()
	runtime.GC()
	total := 0
	for _, t := range totals {
		total += t
	}
	child, err := exec.Command("/bin/echo", "child").Output()
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(total, recovered(), strings.TrimSpace(string(child)))
	os.Exit(len(os.Args) - 1)
}
