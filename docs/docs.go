// Package docs holds the texts about vfix that the command prints too.
package docs

import _ "embed"

// JSON describes what --format json prints, in Markdown.
//
//go:embed json.md
var JSON string

// Schema is the same as a JSON Schema (draft 2020-12).
//
//go:embed schema.json
var Schema string
