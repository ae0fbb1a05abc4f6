package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func statusCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Say whether a cluster is up, and how much memory it takes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := placeOf(*name)
			if err != nil {
				return err
			}
			s, err := p.currentState()
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the cluster %s is up\nKUBECONFIG=%s\nlogs in %s\n\n",
				p.name, s.Kubeconfig, p.filePath("cluster/logs"))
			return writeMemory(cmd.OutOrStdout(), s.PID)
		},
	}
}

// writeMemory writes the memory of the descendants of a process (proportional set size), by
// program.
func writeMemory(w io.Writer, root int) error {
	children, err := childrenOfAll()
	if err != nil {
		return err
	}
	count, kibibytes := map[string]int{}, map[string]int{}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		todo = append(todo, children[todo[0]]...)
		name := programOf(todo[0])
		count[name]++
		kibibytes[name] += proportionalSetSize(todo[0])
	}
	var names []string
	total := 0
	for name := range count {
		names = append(names, name)
		total += kibibytes[name]
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%-26s %3d × %7.1f MiB\n", name, count[name], float64(kibibytes[name])/float64(count[name])/1024)
	}
	fmt.Fprintf(w, "%-26s       %7.1f MiB\n", "all", float64(total)/1024)
	return nil
}

// childrenOfAll returns the children of every process.
func childrenOfAll() (map[int][]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …"; the name may have anything in it.
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

func programOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "ended"
	}
	program, _, _ := strings.Cut(string(text), "\x00")
	return filepath.Base(program)
}

func proportionalSetSize(pid int) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kibibytes, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kibibytes
		}
	}
	return 0
}
