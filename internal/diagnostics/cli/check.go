package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// checkFlagValues contains the flags of the command check.
type checkFlagValues struct {
	*pageClient
	pre           bool
	proxy, format string
	wait          time.Duration
}

const checkText = `check finds out whether the mesh is healthy, with one line for each check and a hint for what failed. The categories are the
API server and permissions, the kinds and their versions, the control plane (pods, replicas that answer and agree by hash, versions,
resource limits, objects with errors, clocks), webhooks, certificates, remote clusters, DNS, and the connected proxies.

Webhooks are tested by requests with dryRun, so that the API server itself calls them: nothing is stored. Ports of pods are reached by
port-forward. A check that the user has no permission for is skipped.

With --pre it is checked whether a control plane can be installed, and with --proxy the pod of a proxy: whether its traffic is captured,
and the state, configuration, certificate, version and clock of its proxy.

The exit code is 5 if a check failed. Warnings do not change it. With --wait, the checks are repeated until none fails, or the time is
over.`

// checkCommand returns the command that checks the health of the mesh and fails if a check fails
// (checkFlagValues.run).
func (a *pageClient) checkCommand() *cobra.Command {
	f := &checkFlagValues{pageClient: a}
	c := &cobra.Command{
		Use: "check", Short: "Check the health of the mesh", Long: checkText, Args: cobra.NoArgs,
		Example: `  pilotctl check
  pilotctl check --pre
  pilotctl check --proxy productpage-v1-7d6b.bookinfo
  pilotctl check --wait 2m -o junit > check.xml`,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fs := c.Flags()
	fs.BoolVar(&f.pre, "pre", false, "check whether a control plane can be installed")
	fs.StringVar(&f.proxy, "proxy", "", "check the pod of a proxy: NAME or NAME.NAMESPACE")
	fs.DurationVar(&f.wait, "wait", 0, "time for which the checks are repeated until none fails")
	fs.StringVarP(&f.format, "output", "o", "table", "table, wide (details of passed checks), json, yaml or junit")
	return c
}

// CheckError is the error of a command whose checks have failed.
type CheckError struct {
	Failed int
	// reason describes the only check of a command. If empty, the text has the number of failed checks.
	reason string
}

// Error returns the reason, or if that is empty the number of failed checks, such as "2 checks
// failed".
func (e *CheckError) Error() string {
	switch {
	case e.reason != "":
		return e.reason
	case e.Failed == 1:
		return "1 check failed"
	default:
		return fmt.Sprintf("%d checks failed", e.Failed)
	}
}

// run makes the checks until none fails or --wait is over, at least once, and prints the last
// results. Between two attempts it pauses and closes the connections; a canceled context ends them.
// It returns a *CheckError if a check of the last results failed. An unknown format, and --pre
// without a cluster, are other errors, before any check.
func (f *checkFlagValues) run(c *cobra.Command) error {
	if err := f.checkResultFormat(); err != nil {
		return err
	}
	if f.pre {
		if _, err := f.options().RESTConfig(); err != nil {
			return err // without a cluster, all checks would be skipped
		}
	}
	deadline := time.Now().Add(f.wait)
	results := f.results(c.Context())
	for check.Count(results, check.Fail) > 0 && time.Now().Before(deadline) && pause(c.Context(), nil) == nil {
		f.close()
		results = f.results(c.Context())
	}
	return f.report(c, "pilotctl check", results)
}

// settleTime is how long replicas may differ after a change.
const settleTime = 5 * time.Second

// results makes the checks once. Without a kubeconfig, the checks of the cluster are skipped. If
// the kubeconfig is invalid, its error is reported as that of the control plane (ControlError),
// which is then not connected to. Nor is it with --pre.
func (f *checkFlagValues) results(ctx context.Context) []check.Result {
	t := &check.Target{
		Namespace: f.Namespace, Revision: f.Revision, Pre: f.pre, Proxy: f.proxy, ProxyNamespace: f.namespace,
		Now: time.Now, Timeout: timeout, Settle: settleTime,
	}
	o := f.options()
	if o.HasKubeconfig() {
		if client, err := o.Client(); err != nil {
			t.ControlError = err
		} else {
			defer client.HTTP.CloseIdleConnections()
			t.Client = client
			t.DialPod = func(ctx context.Context, pod *corev1.Pod, port int) (net.Conn, error) {
				forward := connect.NewForwarder(client.Config, pod.Namespace, pod.Name, port)
				conn, err := forward.DialContext(ctx, "", "")
				if err != nil {
					forward.Close()
					return nil, err
				}
				return &forwardedConn{conn, forward}, nil
			}
		}
	}
	if !f.pre && t.ControlError == nil {
		t.Control, t.ControlError = f.controlPlane(ctx)
	}
	return t.Run(ctx)
}

// forwardedConn is a connection over a port-forward of its own.
type forwardedConn struct {
	net.Conn
	forward *connect.Forwarder
}

// Close closes the connection and ends the port-forward.
func (c *forwardedConn) Close() error {
	defer c.forward.Close()
	return c.Conn.Close()
}

// checkResultFormat returns an error if --output has an unknown format.
func (f *checkFlagValues) checkResultFormat() error {
	switch f.format {
	case tableFormat, wideFormat, jsonFormat, yamlFormat, junitFormat:
		return nil
	default:
		return fmt.Errorf("--output %q: want table, wide, json, yaml or junit", f.format)
	}
}

// print writes the results in the format of --output. suite is the name of the test suite in JUnit.
// All formats but junit, json and yaml are printed as text. For json and yaml it sets f.output.
func (f *checkFlagValues) print(c *cobra.Command, suite string, results []check.Result) error {
	switch f.format {
	case junitFormat:
		return writeJUnit(c.OutOrStdout(), suite, results)
	case jsonFormat, yamlFormat:
		f.output = f.format
		return f.printAnswer(c, answer{whole: results})
	}
	return f.printChecks(c.OutOrStdout(), results)
}

// marks returns the mark and the color of each status.
func marks() map[check.Status][2]string {
	return map[check.Status][2]string{check.Pass: {"√", green}, check.Warn: {"‼", yellow}, check.Fail: {"×", red},
		check.Skip: {"-", ""}}
}

// printChecks writes a line for each check below the name of its category, and the totals. Below a
// check that failed or warns it writes its detail and hint; others have their detail in the line,
// if they are skipped or with -o wide. Results must be sorted by category.
func (f *checkFlagValues) printChecks(w io.Writer, results []check.Result) error {
	category := ""
	for _, r := range results {
		if r.Category != category {
			if category != "" {
				fmt.Fprintln(w)
			}
			category = r.Category
			fmt.Fprintln(w, category)
		}
		mark := marks()[r.Status]
		line := r.Check
		if r.Detail != "" && (f.format == wideFormat || r.Status == check.Skip) {
			line += " (" + r.Detail + ")"
		}
		fmt.Fprintf(w, "%s %s\n", f.inColor(mark[0], mark[1]), line)
		if r.Status == check.Fail || r.Status == check.Warn {
			fmt.Fprintf(w, "    %s\n    hint: %s\n", r.Detail, r.Hint)
		}
	}
	warnings := "1 warning"
	if n := check.Count(results, check.Warn); n != 1 {
		warnings = fmt.Sprintf("%d warnings", n)
	}
	_, err := fmt.Fprintf(w, "\n%d passed, %s, %d failed, %d skipped\n", check.Count(results, check.Pass), warnings,
		check.Count(results, check.Fail), check.Count(results, check.Skip))
	return err
}
