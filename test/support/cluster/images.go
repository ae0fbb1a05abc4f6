package cluster

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
)

// baseImages are the images of every cluster with a node: CoreDNS; `pause`, which does nothing;
// this machine's shell and curl, under the names by which manifests know them.
func (c *Cluster) baseImages(ctx context.Context) (image.Map, error) {
	dns, err := c.programs.Path(ctx, "coredns")
	if err != nil {
		return nil, err
	}
	var images image.Map
	for _, match := range []string{"coredns", "coredns:*"} {
		images = append(images, image.Image{
			Match:      match,
			Entrypoint: []string{"/coredns"},
			Files:      map[string]string{"/coredns": dns},
		})
	}
	for _, match := range []string{"pause", "pause:*"} {
		images = append(images, image.Image{Match: match, Entrypoint: []string{"sleep", "infinity"}})
	}
	for _, match := range []string{"busybox", "busybox:*"} {
		images = append(images, image.Image{Match: match, Entrypoint: []string{"/bin/sh"}})
	}
	for _, match := range []string{"curl", "curl:*"} {
		images = append(images, image.Image{Match: match, Entrypoint: []string{"curl"}})
	}
	return images, missingTools()
}

// missingTools returns an error that names the first program that a node runs and that this machine
// does not have.
func missingTools() error {
	for _, tool := range []string{"nsenter", "iptables", "ip6tables", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("a cluster with a node needs %s: %w", tool, err)
		}
	}
	return nil
}
