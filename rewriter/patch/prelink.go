// The undo data of prelink in a library: how the section is found, and its new name.

package patch

// prelink (of CentOS 5 and 6) gives libraries fixed addresses and keeps the data to undo that in a section: the
// previous ELF header, program headers and section headers. These do not have the injected segment, which the
// patched sites call. prelink finds the section by its name (prelink, src/undo.c, prelink_undo; src/verify.c,
// prelink_verify), so the name is changed:
//
//   - prelink -u refuses: "does not have .gnu.prelink_undo section". With the name it would
//     also refuse because of the section .vfix ("created after prelinking"), unless that was
//     stripped.
//   - prelink --verify treats the file as not prelinked and outputs it unchanged, so rpm -V
//     reports that its digest differs. With the name it fails.
//
// The data remain, and so do the prelinked addresses in the file: DT_GNU_PRELINKED, DT_CHECKSUM and .gnu.liblist,
// which ld.so reads, are still valid.
//
// A file without an injected segment keeps the name: only bytes of .text change in it, which prelink -u copies
// unchanged.
const (
	prelinkUndo  = ".gnu.prelink_undo"
	prelinkAside = ".vfix.prelink_undo"
)
