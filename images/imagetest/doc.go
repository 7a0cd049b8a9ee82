// Package imagetest has what the tests of the packages of images share: images, archives,
// registries and engines made for a test.
package imagetest
