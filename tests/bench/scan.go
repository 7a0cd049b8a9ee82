package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"vfix.dev/vfix/rewriter/elf"
	"vfix.dev/vfix/rewriter/patch"
)

// scanBytes is how many bytes of executable segments the scan is measured on.
const scanBytes = 512 << 20

// scan measures how fast executable bytes are searched, in memory: the programs and
// libraries of this machine, against copying as many bytes of them.
func (b *bench) scan() error {
	var files [][]byte
	var executable int64
	err := filepath.WalkDir("/usr", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || executable >= scanBytes {
			return nil // what cannot be read is not measured
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(data, []byte("\x7fELF")) {
			return nil
		}
		r, err := patch.Scan(elf.Memory(data), int64(len(data)))
		if err != nil || r.ExecBytes == 0 {
			return nil
		}
		files, executable = append(files, data), executable+r.ExecBytes
		return nil
	})
	if err != nil {
		return err
	}
	var scanning, reading []float64
	buf := make([]byte, 128<<10)
	for range b.rounds {
		start := time.Now()
		for _, data := range files {
			if _, err := patch.Scan(elf.Memory(data), int64(len(data))); err != nil {
				return err
			}
		}
		scanning = append(scanning, time.Since(start).Seconds())
		start = time.Now()
		left := executable
		for _, data := range files {
			for n := 0; len(data) > 0 && left > 0; data, left = data[n:], left-int64(n) {
				n = copy(buf, data)
			}
		}
		reading = append(reading, time.Since(start).Seconds())
	}
	gb := float64(executable) / 1e9
	fmt.Printf("Scan: %d files of /usr, %.2f GB of executable segments: %.1f GB/s; copying as many bytes: %.1f GB/s (ratio %.2f)\n\n",
		len(files), gb, gb/median(scanning), gb/median(reading), median(reading)/median(scanning))
	return nil
}
