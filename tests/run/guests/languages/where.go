// tests/run/guests/languages/where.go: says who it is, then executes another program in its place.
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	path, err := os.Executable()
	fmt.Println("executable", path, err)
	fmt.Println("called", os.Args[0])
	fmt.Println(syscall.Exec("/bin/echo", []string{"echo", "executed"}, os.Environ()))
}
