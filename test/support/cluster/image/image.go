package image

import (
	"fmt"
	"os"
	"path"

	"sigs.k8s.io/yaml"
)

// ApplicationUser is the user and group of applications in tests. Like real applications, it is
// neither root nor the proxy's user, so files that the agent writes for applications must be
// readable by other users, and their traffic must be captured.
const ApplicationUser = 5000

// ProxyUser is the user that the images of the control plane and of proxies run as; capture leaves
// its traffic alone.
const ProxyUser = 1337

// Image describes how the containers of one image are run.
type Image struct {
	// Match is a pattern as of [path.Match] for the image reference, or for its last element.
	Match string `json:"match"`
	// Entrypoint and Args are overridden by a container's command and args.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Args       []string `json:"args,omitempty"`
	// Files are files and directories of this machine (absolute paths) by their path in the
	// container, where they are read-only. They are looked up when a container starts: a program
	// that was built again is used from then on.
	Files map[string]string `json:"files,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	// User is the user and group of containers whose Pod names none (default ApplicationUser). An
	// image cannot be root: only a Pod can, by its securityContext.
	User       int64  `json:"user,omitempty"`
	WorkingDir string `json:"workingDir,omitempty"`
}

// Map is a list of images. The first match is used.
type Map []Image

// Read parses a map in the format of Write.
func Read(file string) (Map, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read image map: %w", err)
	}
	var m Map
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		return nil, fmt.Errorf("read image map %s: %w", file, err)
	}
	for _, i := range m {
		if _, err := path.Match(i.Match, ""); err != nil {
			return nil, fmt.Errorf("read image map %s: pattern %q: %w", file, i.Match, err)
		}
	}
	return m, nil
}

// Write writes the map as YAML.
func (m Map) Write(file string) error {
	text, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// Find returns the image of a reference.
func (m Map) Find(reference string) (*Image, error) {
	for i := range m {
		for _, name := range []string{reference, path.Base(reference)} {
			if ok, err := path.Match(m[i].Match, name); err == nil && ok {
				return &m[i], nil
			}
		}
	}
	return nil, fmt.Errorf("image %q is not in the image map", reference)
}
