// Command property makes random legacy programs: functions with calls of the vsyscall page as
// a compiler or a person might have written them, linked in random ways. Each program checks
// itself, as the fixtures do whose checks it is linked with. Then it patches them, and compares the
// programs before and after, stripped and not.
//
//	property -seed N -count N -out DIR
//
// The same seed gives the same programs, byte for byte, with the same compilers. It leaves
// DIR/bin with the programs and their libraries, DIR/after with the patched ones, DIR/src with the sources,
// DIR/programs.txt, one line a program: its file's name, and in words what it is; and DIR/left.txt, the names of those
// in which vfix leaves a call site.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("property: ")
	seed := flag.Uint64("seed", 1, "where the random numbers start")
	count := flag.Int("count", 20, "how many programs")
	objects := flag.String("objects", "tests/build/fixtures-objects", "the fixtures' `DIRECTORY` of objects")
	out := flag.String("out", "", "the `DIRECTORY` that is made")
	t := tools{}
	flag.StringVar(&t.vfix, "vfix", "bin/vfix", "the vfix that patches them")
	flag.StringVar(&t.novsyscall, "novsyscall", "tests/build/novsyscall", "the oracle")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(*seed, *count, *objects, *out)
	if err == nil {
		err = t.compare(*out)
	}
	if err != nil {
		log.Fatalf("seed %d: %v", *seed, err)
	}
}

// run makes the programs.
func run(seed uint64, count int, objects, out string) error {
	for _, dir := range []string{"bin", "src"} {
		if err := os.MkdirAll(filepath.Join(out, dir), 0o755); err != nil {
			return err
		}
	}
	var (
		wait  sync.WaitGroup
		slots = make(chan struct{}, 2)
		lines = make([]string, count)
		errs  = make([]error, count)
	)
	for i := range count {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			// A program depends on the seed and its number alone.
			p := program{name: fmt.Sprintf("p%03d", i), rand: rand.New(rand.NewPCG(seed, uint64(i))), objects: objects, out: out}
			lines[i], errs[i] = p.build()
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "programs.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// oneOf returns a random one.
func oneOf[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
