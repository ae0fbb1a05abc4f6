// Package demo runs the demo as a test: as root, and as a user without any rights.
package demo
