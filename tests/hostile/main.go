// Command hostile makes files and images that are wrong on purpose, each with one defect that
// its name says, out of good ones.
//
//	hostile -program FILE -library FILE -out DIR
//
// It leaves DIR/elf/NAME, one file each, and DIR/image/NAME, each an OCI layout or, as NAME.tar,
// a docker archive. Names that begin with "good" have no defect. Nothing in it is random.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("hostile: ")
	program := flag.String("program", "", "a static `FILE` with call sites")
	library := flag.String("library", "", "a shared library `FILE` with call sites, DT_HASH and DT_GNU_HASH")
	out := flag.String("out", "", "the `DIRECTORY` that is made")
	flag.Parse()
	if *program == "" || *library == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	prog, err := os.ReadFile(*program)
	check(err)
	lib, err := os.ReadFile(*library)
	check(err)
	elves := filepath.Join(*out, "elf")
	check(os.MkdirAll(elves, 0o755))
	for _, d := range elfDefects {
		from := prog
		if d.library {
			from = lib
		}
		check(os.WriteFile(filepath.Join(elves, d.name), d.apply(from), 0o755))
	}
	writeImages(filepath.Join(*out, "image"), prog)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
