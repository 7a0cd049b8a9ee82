// The variable-length numbers of DWARF.

package elf

// leb reads the fields of an exception table in order; bad reports that it ended too soon.
type leb struct {
	b   []byte
	at  int
	bad bool
}

func (r *leb) byte() (c byte) {
	if r.at < len(r.b) {
		c = r.b[r.at]
	} else {
		r.bad = true
	}
	r.at++
	return c
}

func (r *leb) uleb() (v uint64) {
	for shift := 0; shift < 7*10; shift += 7 { // the longest form of 64 bits
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return v
		}
	}
	r.bad = true
	return v
}
