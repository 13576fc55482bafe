# Writes weir.1 from the help texts of the program: cmake -D WEIR=program -D VERSION=x -D OUTPUT=file -P manual.cmake

# help_of(<variable> <subcommand>...): as printed, safe inside a manual page.
function(help_of variable)
  execute_process(COMMAND "${WEIR}" ${ARGN} --help OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  # A dot or quote at the start of a line would be an instruction.
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

help_of(main)
if(NOT main MATCHES "\nSubcommands:\n(([ ]+[^\n]*\n)+)")
  message(FATAL_ERROR "`${WEIR} --help` lists no subcommands where they were expected:\n${main}")
endif()
string(REGEX MATCHALL "(^|\n)  [a-z]+" names "${CMAKE_MATCH_1}")

set(page ".TH WEIR 1 \"\" \"weir ${VERSION}\"\n.SH NAME\nweir \\- parallel file system and I/O runtime for array data\n")
string(APPEND page ".SH DESCRIPTION\n.nf\n${main}.fi\n")
foreach(name IN LISTS names)
  string(STRIP "${name}" name)
  help_of(text ${name})
  string(TOUPPER "${name}" title)
  string(APPEND page ".SH WEIR ${title}\n.nf\n${text}.fi\n")
endforeach()
file(WRITE "${OUTPUT}" "${page}")
