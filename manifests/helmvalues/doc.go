// Package helmvalues has the table of the charts' Helm values: each value of the charts in
// manifests/charts, and each value of Istio's charts of the same purpose, which is honoured or
// rejected with a reason.
//
// In: tables/CHART.yaml. Out: the rows (Values), and the findings of an installation's values
// (Check). Derived from the tables by `go test ./manifests/helmvalues -update`: values.schema.json
// and templates/_values.tpl of each chart, and docs/HELM-VALUES.md. Start reading at Value.
package helmvalues
