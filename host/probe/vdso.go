// The vDSO's symbols and their versions, from its image as vfix-measure writes it.

package probe

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
)

// Symbol is one function that the vDSO offers.
type Symbol struct{ Name, Version string }

// maxImage bounds the image in bytes: kernels' have two to eight pages.
const maxImage = 1 << 20

// VDSO returns the functions of a vDSO's image, sorted by name.
func VDSO(image []byte) ([]Symbol, error) {
	symbols, err := dynamicSymbols(image)
	if err != nil {
		return nil, fmt.Errorf("not the image of a vDSO: %w", err)
	}
	var all []Symbol
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if s.Section != elf.SHN_UNDEF && s.Name != "" && (kind == elf.STT_FUNC || kind == elf.STT_NOTYPE) {
			all = append(all, Symbol{s.Name, s.Version})
		}
	}
	slices.SortFunc(all, func(a, b Symbol) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func dynamicSymbols(image []byte) ([]elf.Symbol, error) {
	if len(image) > maxImage {
		return nil, fmt.Errorf("%d bytes, at most %d", len(image), maxImage)
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64 {
		return nil, errors.New("not for x86-64")
	}
	return f.DynamicSymbols()
}
