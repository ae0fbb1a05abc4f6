// Package screen tells the story of a demo on a terminal, or to a file: scenes, what is done in
// them, rules, and verdicts.
//
// In: texts. Out: lines, in color if it is a terminal's.
// Law: it decides nothing; what is shown of a rule is for the story to say.
//
// Start with [Terminal].
package screen
