package cli

import (
	"net"
	"net/http"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
)

// readyURL is where the agent reports whether Envoy is ready.
const readyURL = "http://127.0.0.1:15021/healthz/ready"

// workloadDoctor returns the command that checks a virtual machine from within. A failed check is a
// *CheckError.
func (a *pageClient) workloadDoctor() *cobra.Command {
	f := &checkFlagValues{pageClient: a}
	var root string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check on a virtual machine whether it can be part of the mesh",
		Long: `Check on a virtual machine whether it can be part of the mesh, with one line for each check and a hint for what failed: the files of
pilotctl workload entry configure with their owners and modes, the token or certificate and when it expires, the clock, the control plane's
name, its port and its certificate, Envoy, and the capture of traffic. Nothing is changed. Run it as root on the machine: other users
may not read the token.

The exit code is 5 if a check failed. Before the agent is started, the checks of Envoy and capture fail.`,
		Example: `  pilotctl workload doctor
  pilotctl workload doctor -o junit > doctor.xml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.checkResultFormat(); err != nil {
				return err
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			m := &check.Machine{
				Root:       root,
				ReadyURL:   readyURL,
				UserID:     userID,
				LookupHost: net.DefaultResolver.LookupHost,
				Dial:       (&net.Dialer{}).DialContext,
				HTTP:       client,
				Now:        time.Now,
				Timeout:    timeout,
			}
			return f.report(c, "pilotctl workload doctor", m.Run(c.Context()))
		},
	}
	c.Flags().StringVar(&root, "root", "/", "working directory of the agent, below which its files are")
	c.Flags().StringVarP(&f.format, "output", "o", "table",
		"table, wide (details of passed checks), json, yaml or junit")
	return c
}

// userID returns the numeric ID of a user of this machine. It returns an error for an unknown user
// and, with ID 0, for a user without a number.
func userID(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(id), err
}
