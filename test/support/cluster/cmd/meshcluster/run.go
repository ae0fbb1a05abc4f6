package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

func kubectlCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ARGS...",
		Short:              "Run kubectl as an administrator of a cluster; it is built if there is none",
		DisableFlagParsing: true, // kubectl's flags are kubectl's: a name of the cluster goes before the command
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			s, err := p.currentState()
			if err != nil {
				return err
			}
			programs, err := cluster.FindPrograms(
				func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) },
			)
			if err != nil {
				return err
			}
			kubectl, err := programs.Kubectl(cmd.Context())
			if err != nil {
				return err
			}
			return execProgram(kubectl, append([]string{"kubectl"}, args...), s)
		},
	}
}

func execCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:                "exec COMMAND...",
		Short:              "Run a command on a cluster's node, in its network, with KUBECONFIG set",
		Args:               cobra.MinimumNArgs(1),
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			s, err := p.currentState()
			if err != nil {
				return err
			}
			if s.NodePID == 0 {
				return fmt.Errorf("the cluster %s has no node", p.name)
			}
			nsenter, err := exec.LookPath("nsenter")
			if err != nil {
				return err
			}
			return execProgram(
				nsenter,
				append([]string{"nsenter", "-n", "-t", strconv.Itoa(s.NodePID), "--"}, args...),
				s,
			)
		},
	}
}

// execProgram replaces this process by another program, with the cluster's kubeconfig in its
// environment.
func execProgram(path string, args []string, s state) error {
	return syscall.Exec(path, args, append(os.Environ(), "KUBECONFIG="+s.Kubeconfig))
}
