// Package document compares documents for people with the sources that they are about, and with the
// output of the commands in them.
//
// Inputs: files and patterns; Markdown texts. Outputs: the names that are in them; their blocks of
// commands, each with the output that the document shows for it.
//
// Start with [FindNames] and [ParseCommands].
package document
