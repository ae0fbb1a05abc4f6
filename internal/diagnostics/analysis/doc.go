// Package analysis finds mistakes that no single config object shows: references to hosts, subsets and
// ports that do not exist, and fields and kinds that have no effect.
//
// Its input is a snapshot, its output is a list of Problems. [Analyzer.Analyze] is pure, and nothing
// that proxies receive depends on it. [Background] runs it, and other checks, on the newest snapshot.
//
// Start with [Analyzer.Analyze]. references.go checks destinations, virtual_services.go what
// VirtualServices mean to one another and to gateways, honour.go what the translation leaves out.
package analysis
