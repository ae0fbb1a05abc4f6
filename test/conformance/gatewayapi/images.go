package gatewayapi

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// modules returns the Go modules of the suite and of Istio's echo programs.
func modules() (suite, echo program.Module, err error) {
	root, err := program.Root()
	if err != nil {
		return program.Module{}, program.Module{}, err
	}
	dir := filepath.Join(root, "test", "conformance", "gatewayapi", "programs")
	return program.Module{Dir: filepath.Join(dir, "suite"), Name: "gateway-api-conformance"},
		program.Module{Dir: filepath.Join(dir, "echo"), Name: "echo"}, nil
}

const suitePackage = "sigs.k8s.io/gateway-api/conformance"

// suiteProgram returns the path of the suite's test program. It is built the first time.
func suiteProgram(ctx context.Context, output func(string, ...any)) (string, error) {
	suite, _, err := modules()
	if err != nil {
		return "", err
	}
	return suite.BuildTest(ctx, "conformance.test", suitePackage, "-s -w", func() {
		output("building the conformance suite: once, up to 5 minutes")
	})
}

// BuildPrograms builds the programs of the suite that are not in the user's cache yet, which takes
// some ten minutes on two cores. Run does so too.
func BuildPrograms(ctx context.Context, output func(string, ...any)) error {
	if _, err := suiteProgram(ctx, output); err != nil {
		return err
	}
	_, err := imagePrograms(ctx, output)
	return err
}

// imagePrograms returns the paths of the programs in the suite's images by their names. They are built the first
// time.
func imagePrograms(ctx context.Context, output func(string, ...any)) (map[string]string, error) {
	suite, echo, err := modules()
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, p := range []struct {
		module    program.Module
		name, pkg string
	}{
		{suite, "echo-basic", suitePackage + "/echo-basic"},
		{echo, "server", "istio.io/istio/pkg/test/echo/cmd/server"},
		{echo, "client", "istio.io/istio/pkg/test/echo/cmd/client"},
	} {
		path, err := p.module.Build(ctx, p.name, p.pkg, "-s -w", func() {
			output("building %s for the conformance suite: once, up to 5 minutes", p.name)
		})
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", p.name, err)
		}
		paths[p.name] = path
	}
	return paths, nil
}

// suiteImages returns the images that the suite's manifests name, with programs that are built the first time.
// Certificates for the TLS ports of the mesh's echo server are written to dir.
func suiteImages(ctx context.Context, dir string, output func(string, ...any)) (image.Map, error) {
	paths, err := imagePrograms(ctx, output)
	if err != nil {
		return nil, err
	}
	certificate, key := filepath.Join(dir, "echo.crt"), filepath.Join(dir, "echo.key")
	if err := pki.SelfSigned(&x509.Certificate{DNSNames: []string{"echo"}}).WriteFiles(certificate, key); err != nil {
		return nil, fmt.Errorf("write the echo server's certificate: %w", err)
	}
	for _, file := range []string{certificate, key} { // The server is neither their owner nor root.
		if err := os.Chmod(file, 0o644); err != nil {
			return nil, fmt.Errorf("write the echo server's certificate: %w", err)
		}
	}
	const bin = "/usr/local/bin/"
	return image.Map{
		{
			Match:      "echo-basic:*",
			Entrypoint: []string{bin + "echo-basic"},
			Files:      map[string]string{bin + "echo-basic": paths["echo-basic"]},
		},
		{
			Match:      "echo-advanced:*",
			Entrypoint: []string{bin + "server"},
			Files: map[string]string{
				bin + "server": paths["server"],
				bin + "client": paths["client"],
				"/cert.crt":    certificate,
				"/cert.key":    key,
			},
		},
	}, nil
}
