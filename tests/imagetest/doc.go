// Package imagetest has helpers that the tests of the packages under images share: images, archives,
// registries and engines made for a test.
package imagetest
