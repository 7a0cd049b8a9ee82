// Package hotfix starts a container with patched files mounted over its own.
package hotfix
