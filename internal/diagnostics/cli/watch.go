package cli

import (
	"bytes"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// watchable adds --watch and --watch-interval (default 2 s) to a command that prints a list, and
// returns the command. With --watch, the command runs again and again, and prints its output when
// that has changed (watchOutput). It refuses an interval that is not positive.
func (a *pageClient) watchable(c *cobra.Command) *cobra.Command {
	watch := false
	var interval time.Duration
	c.Flags().BoolVarP(&watch, "watch", "w", false,
		"print the list again whenever it has changed, until the command is interrupted")
	//nolint:mnd // the default
	c.Flags().DurationVar(&interval, "watch-interval", 2*time.Second, "time between two reads with --watch")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !watch {
			return run(c, args)
		}
		if interval <= 0 {
			return fmt.Errorf("--watch-interval %s: want a positive duration", interval)
		}
		return a.watchOutput(c, interval, func() error { return run(c, args) })
	}
	return c
}

// watchOutput calls run at an interval until the command is interrupted, and prints its output if
// that differs from the last one. On a terminal, the output replaces the last one; elsewhere an
// empty line separates them. An error of run is printed as part of the output, and closes the
// connections, because the control plane may be restarting. Only an error of printing is returned.
func (a *pageClient) watchOutput(c *cobra.Command, interval time.Duration, run func() error) error {
	out, last, first := c.OutOrStdout(), "", true
	defer c.SetOut(out)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		var text bytes.Buffer
		c.SetOut(&text)
		if err := run(); err != nil {
			fmt.Fprintf(&text, "pilotctl: %v\n", err)
			a.close() // the replicas may be others
		}
		if c.Context().Err() != nil {
			return nil
		}
		if now := text.String(); now != last || first {
			switch {
			case a.environment.Terminal:
				fmt.Fprint(out, "\x1b[H\x1b[2J")
			case !first:
				fmt.Fprintln(out)
			}
			if _, err := fmt.Fprint(out, now); err != nil {
				return err
			}
			last, first = now, false
		}
		select {
		case <-c.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}
