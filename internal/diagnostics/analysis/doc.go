// Package analysis finds mistakes that no single config object shows: references to hosts, subsets
// and ports that do not exist, and fields and kinds that have no effect.
//
// The input is a snapshot, and the output is a sorted list of Problems. [Analyzer.Analyze] depends
// only on the snapshot and on the functions in [Unhonoured], and caches their results per object.
// No proxy configuration depends on the Problems. [Background] runs it, and other checks, on the
// newest snapshot.
//
// Start reading with [Analyzer.Analyze] in analyze.go. references.go checks destinations, and
// hidden_subsets.go whether their clients know the subset. sidecars.go checks what Sidecars import.
// subsets.go and workload_selectors.go compare labels with endpoints and workloads.
// virtual_services.go checks how VirtualServices relate to one another and to gateways. honour.go
// reports objects and fields that the translation ignores.
package analysis
