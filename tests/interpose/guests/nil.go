// tests/interpose/guests/nil.go: Go takes SIGSEGV for nil pointers, on stacks of its own.
package main

import (
	"fmt"
	"os"
	"sync"
)

var sink []byte

func store(place *int) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	*place = 1
	return
}

func main() {
	var all sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < 50; round++ {
				sink = make([]byte, 100000)
				if store(nil) == "<nil>" {
					os.Exit(1)
				}
			}
		}()
	}
	all.Wait()
	fmt.Println(store(nil))
}
