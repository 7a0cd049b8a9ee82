// Package docs holds the pages about vfix, which the command also prints.
package docs

import "embed"

// Pages are the pages, in Markdown; README.md is their index. The file name without .md is the
// topic by which `vfix help` prints a page.
//
//go:embed *.md
var Pages embed.FS

// JSON describes what --format json prints, in Markdown.
//
//go:embed json.md
var JSON string

// Schema is the same as a JSON Schema (draft 2020-12).
//
//go:embed schema.json
var Schema string
