package gatewayapi

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/test/support/cluster/image"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// inferenceModule returns the Go module of the Inference Extension's suite and of its reference endpoint picker.
func inferenceModule() (program.Module, error) {
	root, err := program.Root()
	if err != nil {
		return program.Module{}, err
	}
	dir := filepath.Join(root, "test", "conformance", "gatewayapi", "programs", "inference")
	return program.Module{Dir: dir, Name: "gateway-api-inference-extension"}, nil
}

const inferencePackage = "sigs.k8s.io/gateway-api-inference-extension"

// inferenceProgram returns the path of the test program of the Inference Extension's suite. It is built the first time.
func inferenceProgram(ctx context.Context, output func(string, ...any)) (string, error) {
	m, err := inferenceModule()
	if err != nil {
		return "", err
	}
	return m.BuildTest(ctx, "conformance.test", inferencePackage+"/conformance", "-s -w", func() {
		output("building the conformance suite of the Inference Extension: once, up to 5 minutes")
	})
}

// inferenceKinds returns the files with the kinds of the Inference Extension, and its image: the reference endpoint
// picker, which is built the first time.
func inferenceKinds(ctx context.Context, output func(string, ...any)) (crds []string, images image.Map, err error) {
	m, err := inferenceModule()
	if err != nil {
		return nil, nil, err
	}
	dir, err := m.SourceOf(ctx, inferencePackage)
	if err != nil {
		return nil, nil, err
	}
	picker, err := m.Build(ctx, "epp", inferencePackage+"/cmd/epp", "-s -w", func() {
		output("building the reference endpoint picker: once, up to 10 minutes")
	})
	if err != nil {
		return nil, nil, fmt.Errorf("build the endpoint picker: %w", err)
	}
	const path = "/usr/local/bin/epp"
	return []string{filepath.Join(dir, "config", "crd", "bases")},
		image.Map{{Match: "epp:*", Entrypoint: []string{path}, Files: map[string]string{path: picker}}}, nil
}

// inferenceNamespace is the namespace of the suite's backends and endpoint pickers.
const inferenceNamespace = "inference-conformance-app-backend"

// prepareInference creates what users of the reference endpoint picker create, as for Istio: it serves TLS with a
// certificate of its own, so a DestinationRule for each of the suite's pickers has gateways use TLS.
func (e *Environment) prepareInference(ctx context.Context) error {
	objects := []string{fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", inferenceNamespace)}
	for _, picker := range []string{"primary", "secondary", "appprotocol-http", "appprotocol-h2c", "dp"} {
		objects = append(objects, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s-endpoint-picker, namespace: %[2]s}
spec: {host: %[1]s-endpoint-picker-svc, trafficPolicy: {tls: {mode: SIMPLE, insecureSkipVerify: true}}}`, picker, inferenceNamespace))
	}
	return e.Cluster.Apply(ctx, strings.Join(objects, "\n---\n"))
}

// inferenceArguments returns the arguments of the program of the Inference Extension's suite. It is
// written for an older release of the Gateway API, so other versions of the definitions are allowed.
func (o RunOptions) inferenceArguments(report string) []string {
	cleanup := "-cleanup-base-resources=" + strconv.FormatBool(!o.Keep)
	return append(o.commonArguments(report), "-allow-crds-mismatch", cleanup)
}
