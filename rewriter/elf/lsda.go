// Landing pads, at which an exception enters a function. Source: the Itanium C++ ABI, "Exception Handling Tables";
// gcc's unwind-pe.h and libsupc++'s eh_personality.cc.

package elf

// maxLSDA is how many bytes of one function's table are read.
const maxLSDA = 1 << 16

// Pad is a landing pad, at which an exception from a call in [Start, End) enters the function.
type Pad struct{ Start, End, At uint64 }

// LandingPads returns the landing pads of fn; ok is false if its table is not understood.
func (f *File) LandingPads(fn Func) (pads []Pad, ok bool) {
	if fn.LSDA == 0 {
		return nil, true
	}
	b := f.Mem(fn.LSDA, maxLSDA)
	if len(b) == 0 {
		return nil, false
	}
	r, base := leb{b: b}, fn.Start
	if enc := r.byte(); enc != peOmit { // @LPStart: another base than the function
		v, n, known := pointer(b[r.at:], fn.LSDA+uint64(r.at), enc)
		if base, r.at = v, r.at+n; !known {
			return nil, false
		}
	}
	if r.byte() != peOmit { // @TType encoding, and the offset of its table
		r.uleb()
	}
	enc := r.byte()
	end := r.uleb()
	if end += uint64(r.at); end < uint64(r.at) || end > uint64(len(b)) {
		return nil, false
	}
	field := r.uleb
	switch enc {
	case peUleb128:
	case peUdata4:
		field = r.u32
	default:
		return nil, false
	}
	for uint64(r.at) < end {
		start := fn.Start + field()
		size, pad := field(), field()
		r.uleb() // the action
		if pad != 0 {
			pads = append(pads, Pad{start, start + size, base + pad})
		}
	}
	return pads, !r.bad
}

const peUleb128 = 0x01

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

func (r *leb) u32() (v uint64) {
	for shift := 0; shift < 32; shift += 8 {
		v |= uint64(r.byte()) << shift
	}
	return v
}
