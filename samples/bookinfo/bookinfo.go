// Package bookinfo holds Bookinfo's manifests: what a user would apply to a cluster, here read from
// a folder.
//
// platform/ is what Kubernetes knows: services, their endpoints, and pods, already placed and given
// addresses. networking/ is Istio's part, a file per rule. consul/ has rules for the hosts that the
// services have if they are registered in Consul. All are data; package mesh brings them to life.
package bookinfo

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed platform/*.yaml networking/*.yaml consul/*.yaml
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
func Networking(name string) (string, error) { return Rule(RulePath(name)) }

// RulePath is where a rule stands below this directory.
func RulePath(name string) string { return "networking/" + name + ".yaml" }

// ConsulRulePath returns the path, below this directory, of a rule for services in Consul.
func ConsulRulePath(name string) string { return "consul/" + name + ".yaml" }

// Rule returns the text of the rules in a file, given by its path below this directory.
func Rule(path string) (string, error) {
	text, err := files.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a rule of Bookinfo: %w", err)
	}
	return string(text), nil
}
