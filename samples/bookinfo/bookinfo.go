// Package bookinfo holds Bookinfo's manifests: what a user would apply to a cluster, here read from a folder.
//
// platform/ is what Kubernetes knows: services, their endpoints, and pods, already placed and given addresses.
// networking/ is Istio's part, a file per rule. Both are data; package mesh brings them to life.
package bookinfo

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed platform/*.yaml networking/*.yaml
var files embed.FS

// Platform returns the Kubernetes objects of Bookinfo, one file per service.
func Platform() fs.FS {
	dir, err := fs.Sub(files, "platform")
	if err != nil {
		panic(err) // only an invalid path
	}
	return dir
}

// Networking returns the text of a rule, "virtual-service-all-v1" say.
func Networking(name string) (string, error) {
	text, err := files.ReadFile(RulePath(name))
	if err != nil {
		return "", fmt.Errorf("reading a rule of Bookinfo: %w", err)
	}
	return string(text), nil
}

// RulePath is where a rule stands below this directory.
func RulePath(name string) string { return "networking/" + name + ".yaml" }
