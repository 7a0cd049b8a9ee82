package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

// memoryRuns is how many runs of each image the largest is taken of: the garbage collector
// does not come at the same moment each time.
const memoryRuns = 3

// memory measures the peak memory of `vfix rebuild` over the size of the image.
func (b *bench) memory() error {
	floor, err := memoryFloor()
	if err != nil {
		return err
	}
	fmt.Printf("Memory: the peak of vfix rebuild, from a layout to a layout; the largest of %d runs.\n", memoryRuns)
	fmt.Printf("%10s %8s %8s %12s %12s\n", "image/MB", "layers", "files", "memory/KiB", "KiB per MB")
	for _, size := range []int64{60e6, 200e6, 500e6, 1000e6} {
		dir := filepath.Join(b.dir, "size")
		blobs, made, err := b.makeImage(dir, size)
		if err != nil {
			return err
		}
		var most int64
		for i := range memoryRuns {
			run, err := b.timed("rebuild", "oci:"+dir+":base", "-o", fmt.Sprintf("oci:%s:out%d", dir, i))
			if err != nil {
				return err
			}
			most = max(most, run.memory)
		}
		if most <= floor {
			return fmt.Errorf("vfix took %d KiB, and what this program starts has %d KiB from it: run it with -only memory", most, floor)
		}
		mb := float64(made.bytes) / 1e6
		fmt.Printf("%10.0f %8d %8d %12d %12.1f\n", mb, len(blobs), made.files, most, float64(most)/mb)
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
}

// forgetPeak gives back what this program took to make an image, and has the kernel forget its peak
// (proc(5), clear_refs).
func forgetPeak() error {
	debug.FreeOSMemory()
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// memoryFloor is the peak in KiB that the kernel reports for a program that takes next to
// nothing: it counts what the parent had at its peak as the child's.
func memoryFloor() (int64, error) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, nil
}
