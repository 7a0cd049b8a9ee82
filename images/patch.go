// Patch: ELF files, folders and tarballs. Package patch does the work.

package images

import (
	"context"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/patch"
)

// PatchOptions are the choices of vfix patch.
type PatchOptions = patch.Options

// Patch patches ELF files, folders (recursively) and tarballs. Exactly one of InPlace and
// Output is set, or DryRun.
func Patch(ctx context.Context, paths []string, o PatchOptions) (*contents.Findings, error) {
	return patch.All(ctx, paths, o)
}
