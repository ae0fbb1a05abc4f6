package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// problemsCommand returns the command that lists the Problems of all replicas, and warns of
// registries that were not read yet. Its error is a *ProblemsError if a Problem reaches
// --failure-threshold; an invalid threshold is refused first.
func (a *pageClient) problemsCommand() *cobra.Command {
	threshold := ""
	command := &cobra.Command{
		Use: "problems", Short: "List invalid or ignored fields of configuration objects", Args: cobra.NoArgs,
		Long: "problems lists invalid or ignored fields of configuration objects, and for how long each has been known.\n\n" +
			"An object with an error is not used as it is written: the version before it stays in use, or proxies reject what is\n" +
			"generated from it. A warning is about a valid object that has another effect than it describes, such as a route to a\n" +
			"host that does not exist, which answers 503. pilotctl analyze --cluster has the levels of istioctl instead.\n\n" +
			"The exit code is 79, as of istioctl analyze, if one of them is an error, or a warning with\n" +
			"--failure-threshold=warning.",
		RunE: func(c *cobra.Command, _ []string) error {
			if !slices.Contains([]string{string(config.Error), string(config.Warning)}, threshold) {
				return fmt.Errorf("--failure-threshold %q: want error or warning", threshold)
			}
			list, err := a.readProblems(c)
			if err != nil {
				return err
			}
			if err := a.printProblems(c, list); err != nil {
				return err
			}
			a.warnWaiting(c)
			return problemsError(list, threshold)
		},
	}
	command.Flags().StringVar(&threshold, "failure-threshold", string(config.Error),
		"lowest severity for which the command fails: error or warning")
	return command
}

// readProblems returns the Problems of all replicas, of objects in --namespace if that is set,
// sorted by object, field and position. Problems with equal texts are listed once, with the
// earliest time. Replicas that do not answer are warned of; if none answers, it returns an error.
func (a *pageClient) readProblems(c *cobra.Command) ([]debug.DatedProblem, error) {
	answers, err := readAPI[readapi.Problems](a, c, "/problems", url.Values{"fresh": {"true"}})
	if err != nil {
		return nil, err
	}
	list, at := []debug.DatedProblem{}, map[string]int{}
	for _, x := range answers {
		warnUnanswered(c, x.Unanswered)
		for _, p := range x.Problems {
			if a.namespace != "" && a.namespace != p.Namespace {
				continue
			}
			text := p.String()
			i, known := at[text]
			if !known {
				at[text] = len(list)
				list = append(list, p.DatedProblem)
				continue
			}
			if old := list[i].Since; p.Since != nil && (old == nil || p.Since.Before(*old)) {
				list[i].Since = p.Since
			}
		}
	}
	slices.SortStableFunc(list, func(p, q debug.DatedProblem) int { return p.Compare(q.Problem) })
	return list, nil
}

// readNacks returns the rejected resources of all replicas. Equal ones are merged (mergeNacks).
// Replicas that do not answer are warned of.
func (a *pageClient) readNacks(c *cobra.Command) ([]debug.Nack, error) {
	answers, err := readAPI[readapi.NackList](a, c, "/nacks", url.Values{})
	if err != nil {
		return nil, err
	}
	var replicas []readapi.ReplicaNacks
	for _, x := range answers {
		warnUnanswered(c, x.Unanswered)
		replicas = append(replicas, x.Replicas...)
	}
	return mergeNacks(replicas), nil
}

// mergeNacks returns the rejected resources of all replicas, in their order. Rejections with the
// same type, resource, version and message are one entry, at the place of the first. It has the sum
// of proxies and times, the earliest Since, the latest Last, all names, and the first Instead.
// Standing and Quarantined are set if they are at any replica.
func mergeNacks(replicas []readapi.ReplicaNacks) []debug.Nack {
	type key struct{ kind, resource, version, message string }
	list, at := []debug.Nack{}, map[key]int{}
	for _, x := range replicas {
		for _, n := range x.Nacks {
			k := key{n.Type, n.Resource, n.Version, n.Message}
			i, known := at[k]
			if !known {
				at[k] = len(list)
				list = append(list, n)
				continue
			}
			sum := &list[i]
			if n.Since.Before(sum.Since) {
				sum.Since = n.Since
			}
			if n.Last.After(sum.Last) {
				sum.Last = n.Last
			}
			sum.Proxies += n.Proxies
			sum.Times += n.Times
			sum.Names = append(sum.Names, n.Names...)
			sum.Standing = sum.Standing || n.Standing
			sum.Quarantined = sum.Quarantined || n.Quarantined
			sum.Instead = cmp.Or(sum.Instead, n.Instead)
		}
	}
	return list
}

// printProblems prints one line per Problem, with its age if that is known, or "no problems"; with
// --output json or yaml the list. With --output name it prints each object once: list must be
// sorted by object.
func (a *pageClient) printProblems(c *cobra.Command, list []debug.DatedProblem) error {
	if !a.isTable() {
		var rows [][]string
		for _, p := range list {
			object := debug.NamedObject{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}.String()
			if p.Kind == "" {
				object = p.Origin // "mesh configuration"
			}
			rows = append(rows, []string{object})
		}
		return a.printAnswer(c, answer{whole: list, rows: rows})
	}
	for _, p := range list {
		line := p.String()
		if p.Since != nil {
			line += " (for " + age(*p.Since, time.Now()) + ")"
		}
		fmt.Fprintln(c.OutOrStdout(), line)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "no problems")
	}
	return nil
}

// problemsError returns a *ProblemsError with the numbers of errors and, if threshold is "warning",
// of warnings in the list, or nil if both are 0.
func problemsError(list []debug.DatedProblem, threshold string) error {
	e := &ProblemsError{}
	for _, p := range list {
		if p.Severity == string(config.Error) {
			e.Errors++
		} else if threshold == string(config.Warning) {
			e.Warnings++
		}
	}
	if e.Errors+e.Warnings == 0 {
		return nil
	}
	return e
}

// nacksCommand returns the command that lists the rejected resources of all replicas. With
// --namespace it lists only resources made from objects there.
func (a *pageClient) nacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "nacks",
		Short: "List resources that proxies rejected (NACK), with the reason and source objects",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.readNacks(c)
			if err != nil {
				return err
			}
			if a.namespace != "" {
				list = slices.DeleteFunc(list, func(n debug.Nack) bool {
					return !slices.ContainsFunc(n.From, func(o debug.NamedObject) bool { return o.Namespace == a.namespace })
				})
			}
			var rows [][]string
			for _, n := range list {
				from := make([]string, 0, len(n.From))
				for _, o := range n.From {
					from = append(from, o.String())
				}
				rows = append(rows, []string{
					n.Type,
					n.Resource,
					nackState(n),
					strconv.Itoa(n.Proxies),
					n.Since.Local().Format(time.DateTime),
					strings.Join(from, ","),
					strings.Join(strings.Fields(n.Message), " "),
				})
			}
			return a.printAnswer(
				c,
				answer{
					whole:  list,
					header: "TYPE\tRESOURCE\tSTATE\tPROXIES\tSINCE\tFROM\tMESSAGE",
					rows:   rows,
					none:   "no resource was rejected",
				},
			)
		},
	}
}

// nackState returns the state of a rejected resource: QUARANTINED, REFUSED while the rejection is
// in effect, otherwise RESOLVED.
func nackState(n debug.Nack) string {
	switch {
	case n.Quarantined:
		return "QUARANTINED"
	case n.Standing:
		return "REFUSED"
	default:
		return "RESOLVED"
	}
}
