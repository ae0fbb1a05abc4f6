package cli

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/adaptertest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
)

const adapterTestText = `adapter test connects to an adapter as a control plane does, and checks what control planes rely on: valid objects, versions,
both variants of xDS, an answer for every kind, reconnects, rejected responses, garbage, slow and many clients. docs/ADAPTERS.md lists
the rules. The adapter should have a few services, and its platform should not change them meanwhile.

With --root-cert, the connection has TLS: --authority is the name in the adapter's certificate (default: the host), and --client-cert
and --client-key are the client's. The exit code is 5 if a rule is broken.`

// adapterCommand returns the command "adapter" with its subcommand "test HOST:PORT", which checks
// an adapter and prints the result of each rule. TLS is used only with --root-cert. The command
// fails with a *CheckError if a rule is broken.
func (a *pageClient) adapterCommand() *cobra.Command {
	f := &checkFlagValues{pageClient: a}
	var target adaptertest.Target
	test := &cobra.Command{
		Use: "test HOST:PORT", Short: "Check whether an adapter does what control planes rely on",
		Long: adapterTestText,
		Args: cobra.ExactArgs(1),
		Example: `  pilotctl adapter test 127.0.0.1:15051
  pilotctl adapter test adapter.example.com:15051 --root-cert ca.pem --client-cert cert.pem --client-key key.pem`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.checkResultFormat(); err != nil {
				return err
			}
			host, _, err := net.SplitHostPort(args[0])
			if err != nil {
				return fmt.Errorf("the address of the adapter: %w", err)
			}
			target.Address = args[0]
			if target.TLS, err = a.AdapterTLS(host); err != nil {
				return err
			}
			return f.report(c, "pilotctl adapter test", target.Run(c.Context()))
		},
	}
	fs := test.Flags()
	fs.DurationVar(&target.Timeout, "timeout", timeout, "time within which the adapter must answer a request")
	fs.DurationVar(&target.Quiet, "quiet", time.Second,
		"time for which a stream is watched for a response that must not arrive")
	fs.StringVarP(&f.format, "output", "o", "table", "table, wide (details of passed rules), json, yaml or junit")
	return groupCommand(&cobra.Command{Use: "adapter", Short: "Commands for adapters of other platforms"}, test)
}

// report prints results in the format of --output. suite is the name of the test suite in JUnit. It
// returns a *CheckError if a result has the status Fail.
func (f *checkFlagValues) report(c *cobra.Command, suite string, results []check.Result) error {
	if err := f.print(c, suite, results); err != nil {
		return err
	}
	if n := check.Count(results, check.Fail); n > 0 {
		return &CheckError{Failed: n}
	}
	return nil
}
