// Package analysis finds what is wrong with config objects that are valid by themselves: references to hosts, subsets and
// ports that nobody has, and fields and kinds that are not honoured.
//
// In: a snapshot. Out: Problems. Law: pure; nothing that proxies are sent depends on it.
//
// Start with [Analyzer.Analyze]. references.go looks at destinations, virtual_services.go at what VirtualServices mean to one
// another and to gateways, honour.go at what the translation leaves out.
package analysis
