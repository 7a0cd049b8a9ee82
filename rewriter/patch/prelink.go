// The undo data that prelink keeps in a library: how the section is found, and the name it
// gets.

package patch

// prelink (of CentOS 5 and 6) gives libraries fixed addresses and keeps what it needs to take
// that back in a section: the ELF header, program headers and section headers of before. None
// of these knows the injected segment, which the patched sites call. prelink finds the section
// by its name (prelink, src/undo.c, prelink_undo; src/verify.c, prelink_verify), and so the
// name is changed:
//
//   - prelink -u refuses: "does not have .gnu.prelink_undo section". With the name it would
//     refuse as well, over the section .vfix ("created after prelinking"), unless that was
//     stripped.
//   - prelink --verify takes the file for one that is not prelinked and gives it as it is,
//     so that rpm -V says that its digest differs. With the name it fails.
//
// The data stay, and so do the addresses that the file was prelinked to: DT_GNU_PRELINKED,
// DT_CHECKSUM and .gnu.liblist, which ld.so reads, are still true.
//
// A file that gets no segment keeps the name: what changes in it are bytes of .text, which
// prelink -u copies as they are.
const (
	prelinkUndo  = ".gnu.prelink_undo"
	prelinkAside = ".vfix.prelink_undo"
)
