// Package inventory lists the images and containers of local engines that call the vsyscall page.
package inventory
