// SQLite files, as far as rpmdb.sqlite needs it: every blob of the table Packages. Pages that are
// still in a write-ahead log are not seen. Source: https://www.sqlite.org/fileformat2.html.

package packages

import (
	"io"

	"vfix.dev/vfix/internal/binread"
)

const (
	sqliteMagic  = "SQLite format 3\x00"
	sqliteHeader = 100 // bytes of the file's header, in front of page 1's content

	sqliteInterior, sqliteLeaf = 0x05, 0x0d // pages of a table
	sqliteTable                = "Packages"
	maxDepth                   = 20
)

type sqlite struct {
	r           io.ReaderAt
	pageSize    int64
	usable      int64
	pages, seen int64
	left        budget
}

// readSQLite reads the blobs of rpm's table Packages.
func readSQLite(r io.ReaderAt, size int64, visit headerVisitor) error {
	var h [sqliteHeader]byte
	if err := binread.Full(r, h[:], 0, "the header", damaged); err != nil {
		return err
	}
	if string(h[:16]) != sqliteMagic {
		return damaged("no SQLite file")
	}
	s := &sqlite{r: r, pageSize: int64(be.Uint16(h[16:])), left: budget(2 * size)}
	if s.pageSize == 1 {
		s.pageSize = 65536
	}
	s.usable = s.pageSize - int64(h[20])
	if s.pageSize < 512 || s.pageSize&(s.pageSize-1) != 0 || s.usable < 480 {
		return damaged("pages of %d bytes", s.pageSize)
	}
	s.pages = size / s.pageSize
	root := int64(0)
	if _, err := s.walk(1, 0, func(row []byte) bool {
		// type, name, tbl_name, rootpage, sql
		cols := sqliteColumns(row)
		if len(cols) >= 4 && string(cols[0]) == "table" && string(cols[1]) == sqliteTable && len(cols[3]) <= 8 {
			for _, c := range cols[3] {
				root = root<<8 | int64(c)
			}
		}
		return root == 0
	}); err != nil || root == 0 {
		return err
	}
	_, err := s.walk(root, 0, func(row []byte) bool {
		cols := sqliteColumns(row) // hnum, blob
		return len(cols) < 2 || visit(cols[1])
	})
	return err
}

// walk visits the rows of the table whose tree begins at a page.
func (s *sqlite) walk(page int64, depth int, visit func(row []byte) bool) (more bool, err error) {
	if s.seen++; s.seen > 2*s.pages+2 || depth > maxDepth || page < 1 || page > s.pages {
		return false, damaged("its tree of pages leads astray at page %d", page)
	}
	b := make([]byte, s.pageSize)
	if err := binread.Full(s.r, b, uint64((page-1)*s.pageSize), "a page", damaged); err != nil {
		return false, err
	}
	head := 0
	if page == 1 {
		head = sqliteHeader
	}
	cells := int64(be.Uint16(b[head+3:]))
	pointers := b[head+8:]
	if b[head] == sqliteInterior {
		pointers = b[head+12:]
	} else if b[head] != sqliteLeaf {
		return false, damaged("page %d is not part of a table", page)
	}
	if 2*cells > int64(len(pointers)) {
		return false, damaged("page %d has %d cells", page, cells)
	}
	for i := range cells {
		at := int64(be.Uint16(pointers[2*i:]))
		if at+4 > s.usable {
			return false, damaged("a cell at %d of a page", at)
		}
		if b[head] == sqliteInterior {
			more, err = s.walk(int64(be.Uint32(b[at:])), depth+1, visit)
		} else {
			var row []byte
			if row, err = s.payload(b[at:s.usable]); err == nil {
				more = visit(row)
			}
		}
		if err != nil || !more {
			return false, err
		}
	}
	if b[head] == sqliteInterior {
		return s.walk(int64(be.Uint32(b[head+8:])), depth+1, visit)
	}
	return true, nil
}

// payload returns the row of a leaf cell: its size, its number, what of it is in the page,
// and the number of the first overflow page if that is not all.
func (s *sqlite) payload(cell []byte) ([]byte, error) {
	size, n := varint(cell)
	_, m := varint(cell[n:])
	cell = cell[n+m:]
	if size > maxHeader {
		return nil, damaged("a row of %d bytes, at most %d are read", size, maxHeader)
	}
	if err := s.left.take(int(size)); err != nil {
		return nil, err
	}
	most, least := s.usable-35, (s.usable-12)*32/255-23
	local := int64(size)
	if local > most {
		if local = least + (local-least)%(s.usable-4); local > most {
			local = least
		}
	}
	if local > int64(len(cell)) || local < int64(size) && local+4 > int64(len(cell)) {
		return nil, damaged("a row of %d bytes ends beyond its page", size)
	}
	row := append([]byte{}, cell[:local]...)
	if uint64(local) == size {
		return row, nil
	}
	b := make([]byte, s.usable)
	for page := int64(be.Uint32(cell[local:])); uint64(len(row)) < size; page = int64(be.Uint32(b)) {
		if page < 1 || page > s.pages {
			return nil, damaged("a row of %d bytes ends after %d", size, len(row))
		}
		if err := binread.Full(s.r, b, uint64((page-1)*s.pageSize), "a page", damaged); err != nil {
			return nil, err
		}
		row = append(row, b[4:min(s.usable, 4+int64(size)-int64(len(row)))]...)
	}
	return row, nil
}

// sqliteColumns takes a record apart: the size of its header, a type for each column, the
// values.
func sqliteColumns(row []byte) [][]byte {
	sizes := []uint64{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0} // of the types below 12
	head, n := varint(row)
	if head > uint64(len(row)) || uint64(n) > head {
		return nil
	}
	types, values := row[n:head], row[head:]
	var cols [][]byte
	for len(types) > 0 {
		t, n := varint(types)
		types = types[n:]
		size := (t - 12) / 2 // of a blob, and of a text, whose types are odd
		if t < uint64(len(sizes)) {
			size = sizes[t]
		}
		if size > uint64(len(values)) {
			return cols
		}
		cols, values = append(cols, values[:size]), values[size:]
	}
	return cols
}

// varint reads a number of 1 to 9 bytes, big-endian, seven bits each; it takes what there is
// where b ends.
func varint(b []byte) (v uint64, n int) {
	for n < len(b) && n < 8 {
		v = v<<7 | uint64(b[n]&0x7f)
		n++
		if b[n-1]&0x80 == 0 {
			return v, n
		}
	}
	if n < len(b) {
		v, n = v<<8|uint64(b[n]), n+1
	}
	return v, n
}
