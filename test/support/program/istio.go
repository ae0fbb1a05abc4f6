package program

import (
	"context"
	"path/filepath"
)

// istioVersion is the release that Istio's programs report.
const istioVersion = "1.31.0"

// IstioModule returns the module that pins Istio's programs.
func IstioModule() (Module, error) {
	root, err := Root()
	return Module{Dir: filepath.Join(root, "test", "conformance", "compat", "programs", "istio"), Name: "istio"}, err
}

// BuildIstio returns the path of one of Istio's programs: "istiod", "pilot-agent" or "istioctl". It
// calls building before it builds one, which takes up to 5 minutes.
func BuildIstio(ctx context.Context, name string, building func()) (string, error) {
	m, err := IstioModule()
	if err != nil {
		return "", err
	}
	return m.Build(ctx, name, "./"+name, "-s -w -X istio.io/istio/pkg/version.buildVersion="+istioVersion, building)
}
