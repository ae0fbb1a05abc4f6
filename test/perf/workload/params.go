package workload

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Params determine a generated mesh completely.
type Params struct {
	Services int `json:"services"`
	// Endpoints are of each service, Routes of each VirtualService.
	Endpoints  int    `json:"endpoints"`
	Routes     int    `json:"routes"`
	Namespaces int    `json:"namespaces"`
	Seed       uint64 `json:"seed"`
	Scope      Scope  `json:"scope,omitempty"`
	// FilePerObject writes each object to its own file, as users store them; otherwise the objects
	// of one kind and namespace share one.
	FilePerObject bool `json:"file_per_object,omitempty"`
}

// Scope selects the services that proxies see.
type Scope string

// The scopes.
const (
	// Mixed adds to odd namespaces a Sidecar that shows only the namespace itself, the previous and
	// the shared namespace; others see all.
	Mixed Scope = ""
	// Everything has no Sidecars.
	Everything Scope = "everything"
	// Namespace adds to each namespace a Sidecar that shows only the namespace itself.
	Namespace Scope = "namespace"
	// Workload adds to each service every kind of object that can select single workloads: a
	// Sidecar, policies, rules that match the caller's labels. No two proxies of different
	// services have the same resources.
	Workload Scope = "workload"
)

const (
	maxServices  = 1 << 16
	maxEndpoints = 1 << 21
)

func (p Params) checkParams() error {
	switch {
	case p.Endpoints < 1 || p.Routes < 1 || p.Namespaces < 1 || p.Services < 2*p.Namespaces:
		return fmt.Errorf("mesh %+v: want at least 1 endpoint, 1 route, and 2 services for each namespace", p)
	case p.Services > maxServices || p.Services*p.Endpoints > maxEndpoints:
		return fmt.Errorf("mesh %+v: too large for the generated addresses", p)
	}
	switch p.Scope {
	case Mixed, Everything, Namespace, Workload:
		return nil
	}
	return fmt.Errorf("mesh: unknown scope %q", p.Scope)
}

// paramsFile is not .yaml, so that a control plane does not read it.
const paramsFile = "mesh.json"

func (p Params) writeFile(dir string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the parameters: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, paramsFile), append(b, '\n'), 0o644)
}

// ReadParams reads the Params of a directory that [Mesh.WriteDir] wrote.
func ReadParams(dir string) (Params, error) {
	var p Params
	b, err := os.ReadFile(filepath.Join(dir, paramsFile))
	if err != nil {
		return p, fmt.Errorf("read the parameters of a mesh: %w", err)
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", filepath.Join(dir, paramsFile), err)
	}
	return p, nil
}
