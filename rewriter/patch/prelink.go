// The undo data of prelink in a library: how the section is found, and its new name.

package patch

// prelink (of CentOS 5 and 6) keeps the headers of a library from before it gave it a fixed address in a section, which
// it finds by its name (src/undo.c, prelink_undo). They do not have the injected segment, which the patched sites call,
// so the name is changed: prelink -u refuses, and prelink --verify outputs the file unchanged. ld.so's data stay valid.
const (
	prelinkUndo  = ".gnu.prelink_undo"
	prelinkAside = ".vfix.prelink_undo"
)
