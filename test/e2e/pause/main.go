// Command pause is the only program of the only image of the end-to-end tests.
//
//	pause                 waits for SIGTERM, as a sandbox and as any container
//	pause stay            the same, but ignores SIGTERM
//	pause burn N DURATION keeps N threads busy
//	pause huge BYTES      touches huge pages of 2 MiB
//	pause touch BYTES [PROGRAM]
//	                      touches memory, starts the program and waits for SIGTERM
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const hugePage = 2 << 20

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		wait(syscall.SIGTERM, syscall.SIGINT)
		return nil
	}
	switch {
	case args[0] == "stay" && len(args) == 1:
		signal.Ignore(syscall.SIGTERM)
		wait(syscall.SIGINT)
		return nil
	case args[0] == "touch" && len(args) >= 2:
		return touch(args[1], args[2:])
	case args[0] == "burn" && len(args) == 3:
		return burn(args[1], args[2])
	case args[0] == "huge" && len(args) == 2:
		return huge(args[1])
	}
	return fmt.Errorf("%q is unknown", args)
}

func wait(signals ...os.Signal) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, signals...)
	<-stop
}

func touch(bytes string, program []string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	data, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return fmt.Errorf("mmap of %d bytes: %w", n, err)
	}
	for i := 0; i < n; i += os.Getpagesize() {
		data[i] = 1
	}
	if len(program) > 0 {
		cmd := exec.Command(program[0], program[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	wait(syscall.SIGTERM, syscall.SIGINT)
	return syscall.Munmap(data)
}

func burn(threads, duration string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(n + 1)
	end := time.Now().Add(d)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			for time.Now().Before(end) {
				for range 1 << 16 {
				}
			}
		})
	}
	all.Wait()
	return nil
}

func huge(bytes string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	data, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_HUGETLB)
	if err != nil {
		return fmt.Errorf("mmap of %d bytes of huge pages: %w", n, err)
	}
	for i := 0; i < n; i += hugePage {
		data[i] = 1
	}
	maps, err := os.ReadFile("/proc/self/numa_maps")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(maps)
	return err
}
