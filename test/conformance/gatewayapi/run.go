package gatewayapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// Profiles returns the names of all profiles of the suite.
func Profiles() []string {
	return []string{"GATEWAY-HTTP", "GATEWAY-GRPC", "GATEWAY-TLS", "GATEWAY-TCP", "GATEWAY-UDP", "MESH-HTTP", "MESH-GRPC"}
}

// RunOptions select what is run.
type RunOptions struct {
	// Class is the GatewayClass under test (default istio).
	Class string
	// Profiles are the profiles to run (default all).
	Profiles []string
	// Tests is a regular expression of test names. If set, there is no report.
	Tests string
	// Skip are the names of tests to leave out, and Exempt features that are not claimed. Both are for the
	// comparison with implementations that lack them. Features of fields that the channel lacks are never claimed.
	Skip, Exempt []string
	// Report is the path of the report (default: none is kept).
	Report string
	// Log receives the suite's own output. If nil, it is discarded.
	Log io.Writer
	// Timeout bounds the run (default 90 minutes).
	Timeout time.Duration
	// Keep keeps the suite's base resources, so that the next run starts sooner.
	Keep bool
}

// Addresses for the test of static addresses: a Gateway may use the first, and not the second.
const (
	usableAddress   = "infra-backend-v1.gateway-conformance-infra.svc.cluster.local"
	unusableAddress = "foo"
)

// Run runs the suite in the cluster. It returns an error if the suite did not run to its end; failed tests are
// in the result.
func (e *Environment) Run(ctx context.Context, o RunOptions) (*Result, error) {
	build, arguments := suiteProgram, RunOptions.arguments
	if e.options.Inference {
		build, arguments = inferenceProgram, RunOptions.inferenceArguments
	}
	suite, err := build(ctx, e.options.Output)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := e.nodeKubeconfig()
	if err != nil {
		return nil, err
	}
	o.Exempt = slices.Concat(o.Exempt, missingFields(e.options.Channel))
	if o.Timeout == 0 {
		o.Timeout = 90 * time.Minute
	}
	report := filepath.Join(e.dir, "report.yaml")
	if err := os.RemoveAll(report); err != nil {
		return nil, err
	}
	args := append([]string{"-n", "-t", strconv.Itoa(e.Cluster.NodePID()), "--", suite}, arguments(o, report)...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var out bytes.Buffer
	cmd.Stdout = &out
	if o.Log != nil {
		cmd.Stdout = io.MultiWriter(&out, o.Log)
	}
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	ran := cmd.Run()
	if o.Tests != "" {
		// The suite counts tests that did not run as passed.
		if err := os.RemoveAll(report); err != nil {
			return nil, err
		}
	}
	result, err := newResult(out.String(), report, time.Since(began))
	if err != nil {
		return nil, errors.Join(err, ran)
	}
	var failed *exec.ExitError
	if ran != nil && (!errors.As(ran, &failed) || result.Failed() == 0) {
		return nil, fmt.Errorf("run the conformance suite: %w\n%s", ran, lastLines(out.String()))
	}
	if o.Report != "" && o.Tests == "" {
		text, err := os.ReadFile(report)
		if err == nil {
			err = os.WriteFile(o.Report, result.annotate(text), 0o644)
		}
		if err != nil {
			return nil, fmt.Errorf("keep the report: %w", err)
		}
	}
	return result, nil
}

// arguments returns the arguments of the suite's program.
func (o RunOptions) arguments(report string) []string {
	if len(o.Profiles) == 0 {
		o.Profiles = Profiles()
	}
	return append(o.commonArguments(report),
		"-all-features", "-conformance-profiles="+strings.Join(o.Profiles, ","),
		"-namespace-labels=istio-injection=enabled",
		"-usable-address="+usableAddress, "-unusable-address="+unusableAddress,
		"-cleanup-base-resources="+strconv.FormatBool(!o.Keep),
	)
}

// commonArguments returns the arguments that the suites of the Gateway API and of its Inference Extension share.
func (o RunOptions) commonArguments(report string) []string {
	class, run := o.Class, "^TestConformance$"
	if class == "" {
		class = "istio"
	}
	if o.Tests != "" {
		run += "/^(" + o.Tests + ")$"
	}
	return []string{
		"-test.v", "-test.run=" + run, "-test.timeout=" + o.Timeout.String(),
		"-gateway-class=" + class,
		"-skip-tests=" + strings.Join(o.Skip, ","), "-exempt-features=" + strings.Join(o.Exempt, ","),
		"-organization=meshpilot", "-project=meshpilot", "-url=https://github.com/meshpilot/meshpilot",
		"-version=" + version, "-contact=https://github.com/meshpilot/meshpilot/issues/new",
		"-report-output=" + report,
	}
}

// missingFields are features of fields that the definitions of the standard channel do not have: the API server drops
// the fields, and there is nothing to serve.
func missingFields(channel cluster.GatewayAPI) []string {
	if channel != cluster.Standard {
		return nil
	}
	var list []string
	for _, f := range []features.FeatureName{
		features.SupportHTTPRouteRetry,
		features.SupportHTTPRouteRetryBackendTimeout,
		features.SupportHTTPRouteRetryConnectionError,
	} {
		list = append(list, string(f))
	}
	return list
}

// version is meshpilot's, as in the charts.
const version = "v0.6.0"

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
