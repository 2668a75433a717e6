// Package treatment is one run of "paddock state verify", convert or repair: from the names of
// files to what the doctor finds in them and to the files that are to be written.
//
// It reads and plans. Nothing is written: a Plan is shown to a person first, and
// internal/node/replacement writes its files. Errors name the flag or the file that is wrong and
// what to do.
package treatment
