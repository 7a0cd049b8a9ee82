// rpm's records of patched files. They are signed, and stay as they are.

package records

import (
	"context"
	"fmt"

	"vfix.dev/vfix/images/contents"
	"vfix.dev/vfix/images/sources"
	"vfix.dev/vfix/internal/packages"
)

// maxRPM is the largest rpm database that is read, in bytes. CentOS's with everything
// installed has some 200 MB.
const maxRPM = 1 << 30

// RpmRecords finds rpm's records of the patched files. Their digests are in the headers of
// packages, which are signed: they stay as they are.
func RpmRecords(ctx context.Context, sub *contents.Subject, targets []contents.Target) ([]Record, error) {
	database := ""
	for _, name := range packages.RPMDatabases() {
		k := sub.T.At(name)
		switch {
		case k == nil || k.Kind != contents.KindFile:
		case k.Size > maxRPM:
			return nil, fmt.Errorf("rpm's database: %s: %d bytes, at most %d are read", name, k.Size, maxRPM)
		case database == "":
			database = name
		}
	}
	if database == "" || len(targets) == 0 {
		return nil, nil
	}
	var files []string
	for _, h := range targets {
		files = append(files, h.Names...)
	}
	owners, err := packages.RPMOwners(sources.FS(ctx, sub.T), files)
	var all []Record
	for _, name := range files {
		if owners[name] != "" {
			all = append(all, Record{Path: name, Manager: "rpm", Package: owners[name], Database: database})
		}
	}
	if err != nil {
		err = fmt.Errorf("rpm's database: %w", err)
	}
	return all, err
}
