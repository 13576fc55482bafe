# Writes what `weir ARGUMENT` prints: cmake -D WEIR=program -D ARGUMENT=manual -D OUTPUT=file -P manual.cmake

execute_process(COMMAND "${WEIR}" ${ARGUMENT} OUTPUT_FILE "${OUTPUT}" COMMAND_ERROR_IS_FATAL ANY)
