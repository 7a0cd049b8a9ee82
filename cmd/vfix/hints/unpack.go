// Files that contain programs, but are neither programs nor tar archives, and the commands that unpack them.

package hints

import (
	"io"
	"os"
	"strings"

	"vfix.dev/vfix/internal/quote"
)

// scan is the command that also takes a stream, and what is read-only.
const scan = "vfix scan"

// packed are such files by the bytes at an offset, and the command that unpacks FILE into the directory DIR, or to stdout
// if it ends with a pipe. Sources: deb(5), rpm's lead, cpio(5), the ext4 super block, ECMA-119, the headers of qcow2 and VMDK, the boot sector of a disk, linux/squashfs_fs.h, PKWARE's APPNOTE.TXT.
var packed = []struct {
	at             int
	magic, command string
}{
	{0, "!<arch>\ndebian-binary", "dpkg-deb -x FILE DIR"},
	{0, "!<arch>\n", "mkdir DIR && ar x --output DIR FILE"},
	{0, "\xed\xab\xee\xdb", "mkdir DIR && rpm2cpio FILE | cpio -idmD DIR"},
	{0, "07070", "mkdir DIR && cpio -idmD DIR < FILE"},
	{0, "PK\x03\x04", "unzip -d DIR FILE"},
	{0, "hsqs", "unsquashfs -d DIR FILE"},
	{0x438, "\x53\xef", "mkdir DIR && mount -o ro,loop FILE DIR"},
	{0x8001, "CD001", "mkdir DIR && mount -o ro,loop FILE DIR"},
	{0, "QFI\xfb", "mkdir DIR && guestmount -a FILE -i --ro DIR"},
	{0, "KDMV", "mkdir DIR && guestmount -a FILE -i --ro DIR"},
	{0x1fe, "\x55\xaa", "mkdir DIR && guestmount -a FILE -i --ro DIR"},
	{0, "7z\xbc\xaf\x27\x1c", "7z x -oDIR FILE"},
	{0, "LZIP", "lzip -dc FILE |"},
	{0, "\x1f\x9d", "gzip -dc FILE |"},
	{0, "\x1f\x8b", "gzip -dc FILE |"},
	{0, "\x28\xb5\x2f\xfd", "zstd -dc FILE |"},
	{0, "BZh", "bzip2 -dc FILE |"},
	{0, "\xfd7zXZ\x00", "xz -dc FILE |"},
	{0, "\x04\x22\x4d\x18", "lz4 -dc FILE |"},
}

// Unpack is the hint about a file that holds programs and was not examined, "" for another file or none. then is the
// command that takes what was unpacked.
func Unpack(file, then string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	b := make([]byte, 0x8100)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return ""
	}
	head := string(b[:n])
	for _, p := range packed {
		if len(head) < p.at || !strings.HasPrefix(head[p.at:], p.magic) {
			continue
		}
		command, dir := p.command, quote.Path(file+".d")
		if pipe, ok := strings.CutSuffix(command, "|"); ok && then == scan {
			return "unpack it: " + strings.ReplaceAll(pipe, "FILE", quote.Path(file)) + "| vfix scan -"
		} else if ok {
			command = pipe + "> DIR"
		} else if strings.Contains(command, "mount -") {
			then = scan
		}
		return "unpack it: " + strings.NewReplacer("FILE", quote.Path(file), "DIR", dir).Replace(command) + " && " + then + " " + dir
	}
	if line, ok := strings.CutPrefix(head, "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); len(words) > 0 {
			return "a script runs its interpreter: vfix scan " + quote.Path(words[0])
		}
	}
	return ""
}
