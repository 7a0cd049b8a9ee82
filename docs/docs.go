// Package docs holds the pages about vfix, which the command also prints.
package docs

import "embed"

// Pages are the pages, in Markdown; README.md is their index. The file name without .md is the
// topic by which `vfix help` prints a page. help has what --help prints, a file a verb.
//
//go:embed *.md help/*.md
var Pages embed.FS

// Schema is the JSON Schema (draft 2020-12) of what --format json prints.
//
//go:embed schema.json
var Schema string
