// Files that contain programs, but are neither programs nor tar archives, and the commands that unpack them.

package screen

import (
	"io"
	"os"
	"strings"

	"vfix.dev/vfix/internal/quote"
)

// packed are such files by the bytes at an offset, and the command that unpacks FILE into the directory DIR, or to stdout
// if it ends with a pipe. Sources: deb(5), rpm's lead, PKWARE's APPNOTE.TXT, linux/squashfs_fs.h, the ext4 super block,
// ECMA-119, RFC 1952, RFC 8878, the formats of bzip2 and xz.
var packed = []struct {
	at             int
	magic, command string
}{
	{0, "!<arch>\ndebian-binary", "dpkg-deb -x FILE DIR"},
	{0, "!<arch>\n", "mkdir DIR && ar x --output DIR FILE"},
	{0, "\xed\xab\xee\xdb", "mkdir DIR && rpm2cpio FILE | cpio -idmD DIR"},
	{0, "PK\x03\x04", "unzip -d DIR FILE"},
	{0, "hsqs", "unsquashfs -d DIR FILE"},
	{0x438, "\x53\xef", "mkdir DIR && mount -o ro,loop FILE DIR"},
	{0x8001, "CD001", "mkdir DIR && mount -o ro,loop FILE DIR"},
	{0, "\x1f\x8b", "gzip -dc FILE |"},
	{0, "\x28\xb5\x2f\xfd", "zstd -dc FILE |"},
	{0, "BZh", "bzip2 -dc FILE |"},
	{0, "\xfd7zXZ\x00", "xz -dc FILE |"},
}

// Unpack is the hint about a file that holds programs and was not examined, "" for another file or none.
func Unpack(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, 0x8100) // behind the last magic
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return ""
	}
	head := string(b[:n])
	for _, p := range packed {
		if len(head) < p.at || !strings.HasPrefix(head[p.at:], p.magic) {
			continue
		}
		dir := quote.Path(file + ".d")
		command := strings.NewReplacer("FILE", quote.Path(file), "DIR", dir).Replace(p.command)
		if strings.HasSuffix(command, "|") {
			return "unpack it: " + command + " vfix scan -"
		}
		return "unpack it: " + command + " && vfix scan " + dir
	}
	if line, ok := strings.CutPrefix(head, "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		if words := strings.Fields(line); len(words) > 0 {
			return "a script runs its interpreter: vfix scan " + quote.Path(words[0])
		}
	}
	return ""
}
