// Berkeley DB hash files, as far as rpm's Packages needs it: every value of every page.
// Source: Berkeley DB's src/dbinc/db_page.h (DBMETA, PAGE, HOFFPAGE).

package packages

import (
	"io"

	"vfix.dev/vfix/internal/binread"
)

const (
	bdbMagic    = 0x061561
	bdbMetaSize = 72
	bdbPageHead = 26
	// Where in the metadata page the magic number, the page size and the number of the last
	// page are.
	bdbMagicAt, bdbPageSizeAt, bdbLastAt = 12, 20, 32
	// Where in a page the next page of an overflow chain, the number of entries, the number
	// of bytes of an overflow page and the type are.
	bdbNextAt, bdbEntriesAt, bdbLenAt, bdbTypeAt = 16, 20, 22, 25

	bdbHashUnsorted, bdbOverflow, bdbHash = 2, 7, 13 // page types

	bdbKeyData, bdbOffPage = 1, 3 // item types
	bdbOffPageSize         = 12
)

// readBDB reads the values of a Berkeley DB hash file in the byte order of x86.
func readBDB(r io.ReaderAt, size int64, visit headerVisitor) error {
	var meta [bdbMetaSize]byte
	if err := binread.Full(r, meta[:], 0, "the first page", damaged); err != nil {
		return err
	}
	if le.Uint32(meta[bdbMagicAt:]) != bdbMagic {
		return damaged("no Berkeley DB hash file: magic %#x, want %#x", le.Uint32(meta[bdbMagicAt:]), bdbMagic)
	}
	d := &bdb{r: r, pageSize: int64(le.Uint32(meta[bdbPageSizeAt:])), left: budget(size)}
	if d.pageSize < 512 || d.pageSize > 65536 || d.pageSize&(d.pageSize-1) != 0 {
		return damaged("pages of %d bytes", d.pageSize)
	}
	last := min(int64(le.Uint32(meta[bdbLastAt:])), size/d.pageSize-1)
	b := make([]byte, d.pageSize)
	for n := int64(1); n <= last; n++ {
		if err := d.page(b, n); err != nil {
			return err
		}
		if t := b[bdbTypeAt]; t != bdbHash && t != bdbHashUnsorted {
			continue
		}
		more, err := d.values(b, visit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

type bdb struct {
	r        io.ReaderAt
	pageSize int64
	left     budget
	chain    []byte // a page of an overflow chain
}

func (d *bdb) page(b []byte, n int64) error {
	return binread.Full(d.r, b, uint64(n*d.pageSize), "a page", damaged)
}

// values visits the values of a page: items come in pairs, a key and a value.
func (d *bdb) values(b []byte, visit headerVisitor) (more bool, err error) {
	entries := int(le.Uint16(b[bdbEntriesAt:]))
	if bdbPageHead+2*entries > len(b) {
		return false, damaged("a page with %d entries", entries)
	}
	for i := 1; i < entries; i += 2 {
		at, end := int(le.Uint16(b[bdbPageHead+2*i:])), int(le.Uint16(b[bdbPageHead+2*i-2:]))
		if at >= end || end > len(b) {
			return false, damaged("an item at %d to %d of a page", at, end)
		}
		var value []byte
		switch item := b[at:end]; {
		case item[0] == bdbKeyData:
			value = item[1:]
		case item[0] == bdbOffPage && len(item) >= bdbOffPageSize:
			if value, err = d.overflow(le.Uint32(item[4:]), le.Uint32(item[8:])); err != nil {
				return false, err
			}
		default:
			continue
		}
		if !visit(value) {
			return false, nil
		}
	}
	return true, nil
}

// overflow reads a value of n bytes from a chain of pages.
func (d *bdb) overflow(page, n uint32) ([]byte, error) {
	if n > maxHeader {
		return nil, damaged("a value of %d bytes, at most %d are read", n, maxHeader)
	}
	if d.chain == nil {
		d.chain = make([]byte, d.pageSize)
	}
	var value []byte
	for page != 0 && len(value) < int(n) {
		if err := d.page(d.chain, int64(page)); err != nil {
			return nil, err
		}
		have := int(le.Uint16(d.chain[bdbLenAt:]))
		if d.chain[bdbTypeAt] != bdbOverflow || have == 0 || have > len(d.chain)-bdbPageHead {
			return nil, damaged("page %d is not part of a value", page)
		}
		if err := d.left.take(have); err != nil {
			return nil, err
		}
		value = append(value, d.chain[bdbPageHead:bdbPageHead+have]...)
		page = le.Uint32(d.chain[bdbNextAt:])
	}
	if len(value) < int(n) {
		return nil, damaged("a value of %d bytes ends after %d", n, len(value))
	}
	return value[:n], nil
}
