package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// downPatience is more than a cluster takes to end.
const downPatience = 60 * time.Second

func downCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Take a cluster down, and remove its state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			if !p.isUp() {
				return os.RemoveAll(p.dir) // of a killed process
			}
			s, err := p.readState()
			if err != nil {
				return fmt.Errorf("the cluster %s comes up: wait for it (%w)", p.name, err)
			}
			// The lock is held, so that the number is still that of the process which holds it.
			if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil {
				return fmt.Errorf("end the process %d, which keeps the cluster: %w", s.PID, err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), downPatience)
			defer cancel()
			for p.isUp() {
				select {
				case <-ctx.Done():
					return fmt.Errorf("the cluster %s does not end; its process is %d", p.name, s.PID)
				case <-time.After(50 * time.Millisecond):
				}
			}
			return os.RemoveAll(p.dir)
		},
	}
}
